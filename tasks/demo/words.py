"""Word lists and sentence patterns of the synthetic release, all invented."""

from typing import NamedTuple


class Area(NamedTuple):
    """A research area: names that mean the same, its words, its field of study and its venue."""

    names: tuple[str, ...]
    words: tuple[str, ...]
    field: str
    venue: str


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


def _area(names: str, words: str, field: str, venue: str) -> Area:
    return Area(_split(names), _split(words), field, venue)


AREAS = (
    _area(
        "question answering, answer retrieval, reading comprehension",
        "passages, questions, evidence, answer spans, readers, retrievers, entailment, documents, reasoning chains, "
        "knowledge bases, distractors, unanswerable queries, rationales, context windows, paraphrases, facts",
        "Computer Science",
        "Conference on Language and Answers",
    ),
    _area(
        "graph representation learning, node embedding, network embedding",
        "nodes, edges, neighbourhoods, message passing, link prediction, random walks, adjacency, communities, "
        "spectral filters, attributes, motifs, oversmoothing, subgraphs, heterophily, hyperedges, attention heads",
        "Computer Science",
        "Symposium on Graph Mining",
    ),
    _area(
        "image segmentation, dense pixel labelling, scene parsing",
        "pixels, masks, boundaries, encoders, feature pyramids, instance proposals, dilated convolutions, scenes, "
        "annotations, superpixels, occlusion, decoders, class imbalance, street views, contours, receptive fields",
        "Computer Science",
        "Conference on Visual Understanding",
    ),
    _area(
        "speech recognition, spoken language transcription, acoustic modelling",
        "utterances, phonemes, acoustic frames, transcripts, speakers, accents, spectrograms, beam search, far-field "
        "audio, lexicons, streaming decoders, word error rate, noise, alignments, microphones, voice activity",
        "Computer Science",
        "Workshop on Spoken Language",
    ),
    _area(
        "recommender systems, personalised ranking, collaborative filtering",
        "users, items, ratings, clicks, sessions, preferences, cold start, popularity bias, embeddings, implicit "
        "feedback, candidate generation, exposure, diversity, matrix factors, playlists, shopping baskets",
        "Computer Science",
        "Conference on Personalised Systems",
    ),
    _area(
        "machine translation, cross-lingual generation, multilingual decoding",
        "source sentences, target tokens, parallel corpora, back-translation, subwords, alignments, morphology, "
        "fluency, adequacy, low-resource languages, pivot languages, beam decoding, references, dialects, scripts, "
        "post-editing",
        "Linguistics",
        "Meeting on Translation Technology",
    ),
    _area(
        "robot manipulation, dexterous grasping, robotic control",
        "grippers, policies, rewards, trajectories, demonstrations, contact forces, simulators, joint angles, "
        "objects, tactile sensors, motion planners, actuators, collisions, state estimates, goal images, sim-to-real "
        "transfer",
        "Engineering",
        "Journal of Robot Motion",
    ),
    _area(
        "federated learning, decentralised training, collaborative model training",
        "clients, servers, gradients, communication rounds, local updates, aggregation, privacy budgets, stragglers, "
        "secure sums, data silos, heterogeneity, device memory, poisoned updates, personal models, bandwidth, "
        "clipping",
        "Computer Science",
        "Symposium on Distributed Learning",
    ),
    _area(
        "protein structure prediction, protein folding, structural modelling of proteins",
        "residues, sequences, folds, contact maps, alignments, side chains, homologues, binding sites, domains, "
        "helices, energy functions, mutations, complexes, backbone angles, chaperones, evolutionary couplings",
        "Biology",
        "Journal of Molecular Shape",
    ),
    _area(
        "lithium battery materials, solid-state electrolytes, energy storage electrodes",
        "cathodes, anodes, ions, dendrites, conductivity, cycles, capacity fade, interfaces, ceramics, polymers, "
        "voltage, grain boundaries, coatings, charge rates, impedance, separators",
        "Materials Science",
        "Letters on Storage Materials",
    ),
    _area(
        "traffic forecasting, travel demand prediction, road flow estimation",
        "road segments, loop detectors, speeds, congestion, intersections, sensors, rush hours, incidents, trips, "
        "weather, occupancy, calendars, origin-destination pairs, signal timings, buses, detours",
        "Engineering",
        "Transactions on Urban Mobility",
    ),
    _area(
        "clinical risk prediction, patient outcome modelling, prognosis from health records",
        "patients, admissions, lab values, diagnoses, vital signs, mortality, cohorts, missing values, clinicians, "
        "discharge notes, comorbidities, calibration, triage, treatments, wards, follow-up visits",
        "Medicine",
        "Journal of Clinical Data",
    ),
)

ASPECTS = (
    ("few-shot", "label-efficient", "weakly supervised"),
    ("robust", "adversarially trained", "noise-tolerant"),
    ("interpretable", "explainable", "transparent"),
    ("efficient", "lightweight", "low-latency"),
    ("self-supervised", "contrastive", "unlabelled"),
    ("continual", "incremental", "lifelong"),
    ("multimodal", "cross-modal", "sensor-fused"),
    ("fair", "bias-aware", "equitable"),
    ("uncertainty-aware", "calibrated", "probabilistic"),
    ("large-scale", "web-scale", "scalable"),
    ("privacy-preserving", "confidential", "anonymised"),
    ("domain-adaptive", "transferable", "out-of-distribution"),
    ("real-time", "online", "streaming"),
    ("physics-informed", "constraint-guided", "knowledge-driven"),
    ("human-in-the-loop", "interactive", "feedback-driven"),
    ("causal", "counterfactual", "intervention-based"),
)
"""Directions inside an area; the words of one tuple mean about the same."""

ADJECTIVES = _split(
    "hierarchical, sparse, adaptive, joint, modular, recurrent, latent, compact, gated, structured, iterative, deep, "
    "coarse-to-fine, unified, dynamic, local"
)

METHODS = _split(
    "transformers, mixture models, attention networks, diffusion models, kernel methods, decision trees, memory "
    "modules, variational inference, prompting, distillation, curriculum schedules, retrieval augmentation, Bayesian "
    "priors, spectral methods, message passing, evolutionary search, pretraining, token pruning"
)

QUALITIES = _split(
    "accuracy, coverage, stability, latency, memory use, generalisation, sample efficiency, recall, consistency, "
    "annotation cost, training time, calibration error"
)

_PAPER_SENTENCES = (
    "We study {name} with a focus on {word} and {other}.",
    "Existing work on {name} treats {word} and {other} apart, which limits {quality}.",
    "We propose {system}, a {adjective} approach that combines {method} with {word}.",
    "The {aspect} setting is hard because {word} are rarely observed together with {other}.",
    "Our analysis shows that {word} account for most of the loss in {quality}.",
    "Experiments on {number} collections show that {method} improve {quality} by {percent} percent.",
    "An ablation reveals how {other} interact with {word} when data are scarce.",
    "In contrast to earlier {aspect} methods, {system} needs no tuning of {other}.",
    "We release code, models and {number} thousand annotated {word} for {name}.",
    "A {adjective} encoder maps {word} to a space in which {other} can be compared.",
    "Much of the progress in {name} stems from better use of {method}.",
    "Results hold across {number} random seeds, and {quality} degrades gracefully.",
    "The objective balances {quality} against {other} by means of {method}.",
    "Qualitative inspection suggests that {word} remain the main source of error.",
    "These findings make {aspect} {name} practical for settings with many {word}.",
    "We compare {method} with {adjective} baselines under the same budget.",
)

_SURVEY_SENTENCES = (
    "This survey reviews {aspect} {name} and organises the literature by {word} and {other}.",
    "We group existing methods into {number} families according to how they use {word}.",
    "Approaches based on {method} trade {quality} for simpler handling of {other}.",
    "We discuss benchmarks for {name}, their {word}, and how {quality} is reported.",
    "Open problems include {other}, {quality}, and the lack of shared {word}.",
    "A taxonomy of {aspect} methods relates {word} to {method}.",
)

_QUESTIONNAIRE_SENTENCES = (
    "A questionnaire was sent to {number} hundred {people}, of whom {percent} percent answered.",
    "Respondents rated statements about {theme} on a five-point scale.",
    "Most {people} reported concerns about {theme}, and few had received training.",
    "Answers differed by age and region; non-response was examined in {number} follow-up interviews.",
)

_TELESCOPE_SENTENCES = (
    "The {system} field covers {percent} square degrees in {number} optical bands.",
    "We present photometric redshifts of galaxies and a catalogue of {number} thousand sources.",
    "Observations were taken over {number} seasons; completeness reaches {percent} percent at the magnitude limit.",
    "The data release includes images, spectra and masks for bright stars.",
)

PEOPLE = _split("nurses, rural teachers, dairy farmers, museum visitors, hospital pharmacists, bus passengers")
THEMES = _split("remote work, vaccination, noise at night, electronic records, food labels, street lighting")

_PAPER_TITLES = (
    "{adjective} {method} for {name}",
    "{system}: {aspect} {name} with {method}",
    "Learning from {word} in {name}",
    "On the role of {word} in {aspect} {name}",
    "{aspect} {name} through {method}",
    "{system}: modelling {word} and {other}",
    "Revisiting {word} for {name}",
    "Towards better {quality} in {name}",
    "How do {word} affect {other}?",
    "{adjective} {method} with {word}",
)

_SURVEY_TITLES = (
    "A Survey of {aspect} {name}",
    "{aspect} {name}: A Survey",
    "A Comprehensive Survey on {aspect} {name}",
    "{name} with {method}: A Survey",
    "Recent Advances in {aspect} {name}: A Survey",
)

_QUESTIONNAIRE_TITLES = (
    "A Survey of {people} on {theme}",
    "{theme}: Results of a National Survey among {people}",
    "Attitudes of {people} towards {theme}: A Cross-Sectional Survey",
)

_TELESCOPE_TITLES = (
    "The {system} Galaxy Survey: Data Release {number}",
    "Photometric Redshifts in the {system} Sky Survey",
)

SENTENCES = {
    "paper": _PAPER_SENTENCES,
    "survey": _SURVEY_SENTENCES,
    "questionnaire": _QUESTIONNAIRE_SENTENCES,
    "telescope": _TELESCOPE_SENTENCES,
}
"""Sentence patterns by kind of paper."""

TITLES = {
    "paper": _PAPER_TITLES,
    "survey": _SURVEY_TITLES,
    "questionnaire": _QUESTIONNAIRE_TITLES,
    "telescope": _TELESCOPE_TITLES,
}
"""Title patterns by kind of paper."""

SECTIONS = ("Introduction", "Related Work", "Method", "Experimental Setup", "Results", "Discussion", "Conclusion")

RESULT_SECTIONS = ("Method", "Experimental Setup", "Results")
"""Sections that a survey replaces by families of methods."""

FIELDS = {
    "questionnaire": ("Sociology", "Journal of Opinion Studies"),
    "telescope": ("Physics", "Sky Observation Letters"),
}
"""Field of study and venue of kinds that belong to no area."""

GIVEN_NAMES = _split("Ana, Bo, Chidi, Dara, Emre, Femi, Greta, Hana, Ivo, Jun, Kaia, Luca, Mina, Noor, Otto, Priya")
FAMILY_NAMES = _split(
    "Adebayo, Brandt, Castellan, Dvorak, Eriksen, Fontaine, Grigoryan, Hoshino, Ibarra, Jansson, Kowal, Lindqvist, "
    "Moreau, Nakamori, Okafor, Petrov, Quiroga, Rahimi, Sandoval, Tamm, Ueda, Varga, Wexler, Yilmaz"
)

SYLLABLES = _split(
    "ba, cor, del, fen, gal, hu, jin, kel, lo, mar, nex, or, pra, qui, ros, sel, tav, ur, vel, wex, yan, zo"
)
