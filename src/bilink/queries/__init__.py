"""Questions to a scorer: answers, pairs, doubts, explanations, export."""

from bilink._extras import lazy

_HOMES = {
    "Answer": "answers",
    "AnswerSets": "answers",
    "Answering": "query",
    "Answers": "answers",
    "Doubt": "doubts",
    "Doubts": "doubts",
    "Explanation": "explain",
    "PairSearch": "pairs",
    "Question": "answers",
    "Vectors": "export",
    "doubt_facts": "doubts",
    "read_names": "answers",
    "read_questions": "answers",
}
__all__ = list(_HOMES)
__getattr__ = lazy(__name__, _HOMES)
