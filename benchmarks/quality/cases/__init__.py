"""The trainings, a file for each family. The line where a fault begins ends in a comment `# <- origin: NAME`."""
