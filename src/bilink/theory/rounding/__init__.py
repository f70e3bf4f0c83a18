"""The rounding rank of relations: upper bounds with certificates, and lower bounds.

boolean        a relation as a Boolean matrix
ordering       orders of columns in which the ones of each row form few intervals
certificates   what proves an upper bound: factors in float64, orders in whole numbers
descent        factors of one block by minimising a hinge loss
geometry       factors of a relation from intervals or from the factors of its blocks
rank           the search
"""
