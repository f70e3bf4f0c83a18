"""Questions to a scorer: answers, pairs, doubts, explanations, export."""

from bilink._extras import lazy

_NAMES = {
    "answers": ("Answer", "AnswerSets", "Answers", "Question", "read_names", "read_questions"),
    "doubts": ("Doubt", "Doubts", "doubt_facts"),
    "explain": ("Explanation",),
    "export": ("Vectors",),
    "pairs": ("PairSearch",),
    "query": ("Answering",),
    "rules": ("Rule", "RuleList"),
}
__all__, __getattr__ = lazy(__name__, _NAMES)
