"""Templates of the HTML report, loaded by forensics.report."""
