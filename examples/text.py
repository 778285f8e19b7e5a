"""Sort sentences into topics, from a few labels.

Sentences become vectors, and the classifier takes it from there. The labels are words, and None where
nobody has read the sentence yet.
"""

import itertools

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline

from dahgnn import DAHGNNClassifier

TIMES = ["This morning", "Yesterday", "Last week", "On Sunday", "Once again"]
PHRASES = {  # topic: who, what they did, with what
    "cooking": (
        ["the chef", "my grandmother", "a hungry guest"],
        ["tasted", "stirred", "seasoned", "burnt"],
        ["the onion soup", "a pan of rice", "the bread dough", "a tomato sauce"],
    ),
    "football": (
        ["the goalkeeper", "our captain", "a young striker"],
        ["missed", "scored from", "argued about", "trained for"],
        ["the penalty", "a free kick", "the cup final", "the corner"],
    ),
    "weather": (
        ["the forecast", "a cold front", "the west wind"],
        ["promised", "brought", "ended in", "was followed by"],
        ["heavy rain", "a week of fog", "the first snow", "a thunderstorm"],
    ),
}


def write_sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Return so many sentences of each topic, with the topic, in random order."""
    generator = np.random.default_rng(seed)
    written = []
    for topic, phrases in PHRASES.items():
        sentences = [" ".join(words) + "." for words in itertools.product(TIMES, *phrases)]
        written += [(sentence, topic) for sentence in generator.permutation(sentences)[:count]]
    generator.shuffle(written)
    return written


sentences, topics = zip(*write_sentences(60, seed=0), strict=True)
labels = [*topics[:15], *[None] * 165]

# A sentence-embedding model would stand here; all that is needed is one vector for each sentence.
embed = make_pipeline(TfidfVectorizer(), TruncatedSVD(20, random_state=0))
classifier = DAHGNNClassifier(random_state=0).fit(embed.fit_transform(sentences), labels)

found = classifier.transduction_[15:]
print(f"Accuracy of 165 unlabelled sentences, from 15 labels: {accuracy_score(topics[15:], found):.1%}")
for sentence, topic in zip(sentences[15:18], found, strict=False):
    print(f"{topic:>8}: {sentence}")
print("New sentences:")
new = ["Who burnt the rice?", "Our captain scored twice.", "Snow follows the fog."]
for sentence, topic in zip(new, classifier.predict(embed.transform(new)), strict=True):
    print(f"{topic:>8}: {sentence}")
