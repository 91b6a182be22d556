"""Static figures for papers and reports: what ``acclc plot`` draws. matplotlib is needed only to draw."""
