"""`python -m forensics.cli` does what `msforensics` does."""

from forensics.cli import main

main(prog_name="msforensics")
