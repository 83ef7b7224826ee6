"""Converts public datasets and Rasa projects, in the format of their authors, into dataset folders.

``python eval/benchmarks/importers KIND SRC --out FOLDER`` runs it. Nothing is downloaded, and labels are derived only
from what a source states.
"""

from importers import intents, mix, multidogo, nlupp, rasa, rewrites, sgd, sgd_variants, star
from importers.source import Source

SOURCES: dict[str, Source] = {
    each.name: each
    for each in (
        intents.clinc150,
        intents.banking77,
        intents.hint3,
        nlupp.nlupp,
        mix.mixsnips,
        mix.mixatis,
        star.star,
        sgd.sgd,
        sgd_variants.sgd_x,
        sgd_variants.multiwoz22,
        multidogo.multidogo,
        rewrites.gecor,
        rewrites.canard,
        rewrites.treccast,
        rewrites.disfl_qa,
        rewrites.tiage,
        rasa.rasa_nlu,
        rasa.calm_e2e,
    )
}
"""The sources by name."""
