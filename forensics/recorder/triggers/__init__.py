"""What makes the recorder write a bundle: one file for each kind of trigger."""
