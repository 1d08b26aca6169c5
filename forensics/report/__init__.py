"""The report: a diagnosis and its bundle, put into words, pictures and markup."""
