"""Papers in English are told from others, by title and abstract or by the title alone."""

import pytest

from tasks.corpus.language import foreign_language

ENGLISH = [
    ("Wave Energy Converters: Survey, Taxonomy, and Open Problems", None),
    ("Anomaly Detection: A Survey", None),
    ("Curriculum Learning: A Survey", None),
    ("Quantum Cryptography", None),
    ("No Free Lunch, No Problem: A Survey on No-Regret Learning", None),
    ("Survey on Non-i.i.d. Sampling av Graphs", None),
    ("Surveying Athletes in Los Angeles and El Paso", None),
    ("<i>L</i><sub><i>p</i></sub> Samplers: A Survey", None),
    ("Über-Tagging: A Survey of the Ideas of von Neumann and de Bruijn", None),
    (
        "Ein Überblick (A Survey)",
        "We review the methods that are used for the analysis of speech, and list open problems.",
    ),
    ("α-Divergences, β-VAEs and γ-Models: A Survey", None),
    ("", None),
]

FOREIGN = [
    ("Un survey sur la détection d'anomalies dans les réseaux", None, "French"),
    ("Survey : apprentissage", "Nous présentons un état de l'art des approches et discutons les défis.", "French"),
    ("Ein Survey über Verfahren der automatischen Bildverarbeitung", None, "German"),
    ("Un survey de métodos de aprendizaje para el análisis de textos", None, "Spanish"),
    ("Survey em engenharia", "Este trabalho apresenta os resultados de uma revisão dos métodos.", "Portuguese"),
    ("Una survey sui metodi di ottimizzazione per la pianificazione", None, "Italian"),
    ("Een survey van methoden voor het herkennen van spraak", None, "Dutch"),
    ("Survey metode klasifikasi", "Penelitian ini membahas metode yang digunakan untuk teks.", "Indonesian"),
    ("Makine öğrenmesi için bir survey: yöntemler ve uygulamalar", None, "Turkish"),
    ("Survey metod", "W artykule przedstawiono przegląd metod, które są oraz nie są stosowane na co dzień.", "Polish"),
    ("Survey về các phương pháp học máy cho ngôn ngữ", None, "Vietnamese"),
    ("深度学习综述 (Survey)", "本文综述了近年来深度学习方法的研究进展。", "other script"),
    ("Обзор (survey) методов машинного обучения", None, "other script"),
    ("مسح survey لطرق التعلم الآلي", None, "other script"),
    ("딥러닝 기반 객체 검출 기법 survey", None, "other script"),
    ("Μια επισκόπηση (survey) μεθόδων μηχανικής μάθησης", None, "other script"),
]


@pytest.mark.parametrize(("title", "abstract"), ENGLISH)
def test_english_papers(title: str, abstract: str | None):
    assert foreign_language(title, abstract) is None


@pytest.mark.parametrize(("title", "abstract", "language"), FOREIGN)
def test_papers_in_other_languages(title: str, abstract: str | None, language: str):
    assert foreign_language(title, abstract) == language
