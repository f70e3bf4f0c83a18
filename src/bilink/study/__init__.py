"""Experimental studies, from the data to the tables."""
