"""The rounding rank of relations: upper bounds with certificates, and lower bounds."""
