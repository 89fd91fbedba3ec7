"""The lab behind the site: reads a trainer, runs examples about it, and shows what they printed.

Three layers, and imports point one way: reading code (catalogue, locate, example, depend, place),
running it (measure, device, child, process, run, scrub, record, transcript, recorder), and showing
it (all the rest, such as pages, chart, study and hooks).
The first two need nothing but the standard library, so a machine with a GPU can record without the
site's packages, and the site can be built where torch is not installed.
"""
