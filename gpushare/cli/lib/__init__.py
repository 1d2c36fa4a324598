"""What several commands share: flags and their values, completion, the screen and tables of text."""
