"""Label with others: the page of one person, and the view of the lead."""
