"""The codes of importers: what is wrong with a file of a foreign format."""

from __future__ import annotations

from acclc.diagnostics.entry import CatalogueEntry

IMPORT_CODES: tuple[CatalogueEntry, ...] = (
    CatalogueEntry(
        "import-unknown-format",
        "a file whose format is not known",
        "`acclc topo import` finds out by itself what a file is: the output of `nvidia-smi topo -m` or `-p2p`, of"
        " `rocm-smi --showtopo`, NCCL's or RCCL's topology XML, TACCL's topology or sketch, TE-CCL's input, ASTRA-sim's"
        " network YAML, a topology of msccl-tools. `--format` names one where the file is damaged at its start.",
    ),
    CatalogueEntry(
        "import-not-a-topology",
        "a file that describes something else than a machine",
        "A schedule (MSCCL XML, an MSCCL++ plan), NCCL's graph dump (NCCL_GRAPH_DUMP_FILE) and the inputs of other"
        " simulators are recognised, but they do not say what the machine is. Give the topology instead: for NCCL the"
        " file that NCCL_TOPO_DUMP_FILE names.",
    ),
    CatalogueEntry(
        "import-damaged",
        "a file that cannot be read as its format wants",
        "The place is where reading stopped: a cell that is no class of a path, XML or JSON that breaks off, a number"
        " that is none. Paste or copy the file again, whole.",
    ),
    CatalogueEntry(
        "import-missing",
        "a part without which the machine is not known",
        "A row or column of a matrix, an attribute of an element, a key, or a whole link matrix is not in the file and"
        " follows from nothing else. The help says what to add.",
    ),
    CatalogueEntry(
        "import-contradiction",
        "two statements that cannot both be true",
        "A matrix is symmetric, a path that two devices have in common is the same for both, and both ends of a link"
        " count it alike. Where one of the two is likely (a NUMA node against a path) it is believed and this is a"
        " warning; else the file has to be mended.",
    ),
    CatalogueEntry(
        "import-impossible",
        "a machine that cannot be built",
        "No GPU has more than 18 NVLinks. NV# of the pairs of a row may sum to more only where an NVSwitch joins them,"
        " and then every pair shows the same number. Matrices of this kind are typed or invented, or rows were lost."
        " The links are written down as the file has them, so nothing found on them holds for a real machine.",
    ),
    CatalogueEntry(
        "import-partial",
        "a file that leaves out a part of the machine",
        "Some files hold only a part: hints for virtual machines have neither GPUs as such nor NVLink (NCCL asks the"
        " driver for these), `topo -p2p` only says between whom peer access works. What is there was imported.",
    ),
    CatalogueEntry(
        "import-ignored",
        "a part of the file that was left out",
        "A second matrix, a link to a GPU that the file does not have, an element that says nothing of the machine."
        " The rest was imported.",
    ),
    CatalogueEntry(
        "import-value",
        "a value that is not what it has to be",
        "A bandwidth, a latency or a count is a number above 0 (a latency may be 0); a rank lies within the machine;"
        " `tbd` stands for a value that its author had not measured yet.",
    ),
    CatalogueEntry(
        "import-too-large",
        "a machine too large to be written down link by link",
        "Write it in the language with `for`, with parameters or with replicas of a smaller topology:"
        " `topology cluster(n = 64) { hgx_h100 box[n] ... }`.",
    ),
    CatalogueEntry(
        "import-setting",
        "a setting of `acclc topo import` that has no meaning",
        '`--set nvlink=22` (GB/s), `--set "pcie=0.8 us"`: rate or latency of a class; `--set gpu=h100`, `--set'
        " pcie-generation=5`, `--set matrix=2`: what the file leaves open.",
    ),
    CatalogueEntry(
        "import-join",
        "a box that cannot be joined to a cluster",
        "`acclc topo join BOX.accl --hosts 4 --fabric rail` joins copies of a topology of the file by its network"
        " cards, or by its GPUs where it has none. `--topology` names one of several.",
    ),
)
