"""The theory that can be run: what each family of models can express, and at which size.

rankings            what a ranking is, and when two models agree
conversions         one model as another, with a certificate
universality        a model for any ranking
consistency         whether a model puts all facts above all other pairs
consistent_models   a model that does, from the factors of its relations
counterexamples     what DistMult, TransE and small RESCAL models cannot express
rounding/           the rounding rank of relations, with certificates
describe, relations what a graph asks of each model
construct           a certified consistent model of a graph
bounds              Table 1 of Wang et al. (2018), as printed and corrected
"""
