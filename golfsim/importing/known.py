"""The classes and keys of PeerSim and GoLF that the translation knows, each with the file in which it was read.

`PEERSIM` stands for src/ of PeerSim 1.0.5 (as kept in antonionduarte/causally-consistent-replication), `EXTRAS` and
`EXAMPLE` for extras/src/peersim/extras/mj/ and peersim/example/ of jasobrown/peersim, and `GOLF` for
src/gossipLearning/ of ormandi/Gossip-Learning-Framework, where a class was moved over the years. ChurnControl and
ChurnInitializer of the package p2pChurn are in a jar; their keys are those of GoLF's own ChurnControl and of the files
that use them.
"""

from __future__ import annotations

from typing import NamedTuple

PEERSIM, EXTRAS, EXAMPLE = "peersim:", "peersim-extras:", "peersim-example:"
GOLF = "golf:"

SCHEDULE = ("step", "from", "until", "at", "FINAL")  # of every protocol and control: peersim/core/Scheduler.java
WIRES = ("protocol", "undir", "undirected", "pack")  # peersim/dynamics/WireGraph.java
GRAPHS = ("protocol", "undir", "undirected")  # peersim/reports/GraphObserver.java
PERIOD = ("delayMean", "delayVar")  # interfaces/protocols/AbstractProtocol.java


class Known(NamedTuple):
    """What is known of a class: where it was read, its keys, and why golfsim needs no setting for some of them."""

    source: str
    keys: tuple[str, ...] = ()
    needless: dict[str, str] = {}  # noqa: RUF012 - of a tuple, which nobody changes


ALWAYS_LOGGED = "the log has it in any case"
PRINTED = "it changes only what is printed"
NO_MEMORY = "it is about memory only"

OVERLAYS = {
    "SimpleNewscast": Known(EXAMPLE + "newscast/SimpleNewscast.java", ("cache",)),
    "EdNewscast": Known(EXTRAS + "ednewscast/EdNewscast.java", ("cache", "baseFreq", "transport")),
    "ChurnableNewscast": Known(GOLF + "overlays/ChurnableNewscast.java", ("cache", "baseFreq", "transport")),
    "IdleProtocol": Known(PEERSIM + "peersim/core/IdleProtocol.java", (), {"capacity": NO_MEMORY}),
}
WIRING = {
    "WireKOut": Known(PEERSIM + "peersim/dynamics/WireKOut.java", (*WIRES, "k")),
    "WireRingLattice": Known(PEERSIM + "peersim/dynamics/WireRingLattice.java", (*WIRES, "k")),
    "WireWS": Known(PEERSIM + "peersim/dynamics/WireWS.java", (*WIRES, "k", "beta")),
    "WireScaleFreeBA": Known(PEERSIM + "peersim/dynamics/WireScaleFreeBA.java", (*WIRES, "k")),
    "WireRegRootedTree": Known(PEERSIM + "peersim/dynamics/WireRegRootedTree.java", (*WIRES, "k")),
    "WireStar": Known(PEERSIM + "peersim/dynamics/WireStar.java", WIRES),
    "WireFromFile": Known(PEERSIM + "peersim/dynamics/WireFromFile.java", (*WIRES, "file", "k")),
    "KRegular": Known(GOLF + "overlays/init/KRegular.java", (*WIRES, "k")),
}
TRANSPORTS = {
    "UniformRandomTransport": Known(
        PEERSIM + "peersim/transport/UniformRandomTransport.java", ("mindelay", "maxdelay")
    ),
    "UnreliableTransport": Known(PEERSIM + "peersim/transport/UnreliableTransport.java", ("transport", "drop")),
    "MessageCounterTransport": Known(
        GOLF + "controls/observers/messageCounter/MessageCounterTransport.java",
        ("transport",),
        {"msgClass": ALWAYS_LOGGED},
    ),
}
AVERAGES = {
    "AverageFunction": Known(EXAMPLE + "aggregation/AverageFunction.java", ("linkable",)),
    "AverageED": Known(EXAMPLE + "edaggregation/AverageED.java", ("linkable", "transport")),
}
_GOLF_KEYS = (*PERIOD, "linkable", "transport")
LEARNING = {
    "LearningProtocol": Known(
        GOLF + "protocols/LearningProtocol.java",
        (
            *_GOLF_KEYS, "learner", "modelHolderCapacity", "evalNames", "evalProbability", "numOfWaitingPeriods",
            "initModelProbability", "epoch", "batch", "modelNames",
        ),
        {
            "modelHolderName": "a node of golfsim stores one current model",
            "extractorProtocol": "golfsim learns from the records as they are",
            "aggrName": ALWAYS_LOGGED,
        },
    ),
    "MultipleLearningProtocol": Known(
        GOLF + "protocols/MultipleLearningProtocol.java",
        (*_GOLF_KEYS, "modelNames", "capacity", "lambda"),
        {"modelHolderName": "its capacity is the setting"},
    ),
    "PegasosMU": Known(GOLF + "algorithms/pegasos/PegasosMU.java", (*_GOLF_KEYS, "lambda", "memory")),
    "PegasosUM": Known(GOLF + "algorithms/pegasos/PegasosUM.java", (*_GOLF_KEYS, "lambda", "memory")),
    "P2Pegasos": Known(GOLF + "algorithms/pegasos/P2Pegasos.java", (*_GOLF_KEYS, "lambda", "memory")),
}  # fmt: skip
LEARNING["LearningProtocolSlim"] = LEARNING["LearningProtocol"]._replace(
    source=GOLF + "protocols/LearningProtocolSlim.java"
)
LEARNING["TokenLearningProtocol"] = Known(
    GOLF + "protocols/TokenLearningProtocol.java",
    (*LEARNING["LearningProtocol"].keys, "strategy", "A", "B", "permutation", "warmupTime"),
    LEARNING["LearningProtocol"].needless,
)
EXTRACTORS = {
    "ExtractionProtocol": Known(
        GOLF + "protocols/ExtractionProtocol.java",
        ("modelName",),
        dict.fromkeys(
            (*_GOLF_KEYS, "modelHolderName", "modelHolderCapacity", "isUseTMan", "isSim"),
            "its extractor changes nothing, so that its messages have no effect",
        ),
    )
}

PLAIN, MERGED = "rw", "mu"


class Learner(NamedTuple):
    """A class of models of GoLF: its learner here, whether it is merged with the last received model, its source."""

    learner: str
    variant: str
    source: str


LEARNERS = {
    "P2Pegasos": Learner("pegasos", PLAIN, "models/learning/P2Pegasos.java"),
    "MergeablePegasos": Learner("pegasos", MERGED, "models/learning/mergeable/MergeablePegasos.java"),
    "LogisticRegression": Learner("logistic", PLAIN, "models/learning/LogisticRegression.java"),
    "MergeableLogisticRegression": Learner("logistic", MERGED, "models/MergeableLogisticRegression.java"),
    "MergeableLogReg": Learner("logistic", MERGED, "models/learning/mergeable/MergeableLogReg.java"),
    "SlimLogReg": Learner("logistic", MERGED, "models/learning/mergeable/slim/SlimLogReg.java"),
    "SlimPegasos": Learner("pegasos", MERGED, "models/learning/mergeable/slim/SlimPegasos.java"),
    "MultiLogReg": Learner("softmax", PLAIN, "models/learning/multiclass/MultiLogReg.java"),
    "KMeans": Learner("kmeans", PLAIN, "models/clustering/KMeans.java"),
    "HungarianMatchingKMeans": Learner("kmeans", MERGED, "models/clustering/HungarianMatchingKMeans.java"),
    "MergeableMultiLogReg": Learner("softmax", MERGED, "models/learning/mergeable/MergeableMultiLogReg.java"),
}
ONE_VS_ALL = {  # their key `model` names the learner: models/learning/multiclass/OneVsAllMetaClassifier.java
    "OneVsAllMetaClassifier": PLAIN,
    "MergeableOvsA": MERGED,
    "SlimOvsA": MERGED,
}
UNLIKE = {  # learners of the same name that do something else here
    "AdalinePerceptron": "its step is 1/(λt) and its weights decay; golfsim's Adaline has a constant step",
    "Perceptron": "it fits an activation function by squares; golfsim's perceptron is that of Rosenblatt",
    "MergeablePerceptron": "it fits an activation function by squares; golfsim's perceptron is that of Rosenblatt",
    "ANN": "its loss is the squared error of activations; that of golfsim's mlp is the logistic loss or cross-entropy",
    "MergeableANN": "its loss is the squared error of activations; that of golfsim's mlp is the logistic loss or "
    "cross-entropy",
}
LEARNER_KEYS = ("lambda", "eta", "is_time", "model", "size")  # ProbabilityModel, LinearModel, OneVsAll…, SlimLogReg

VALUES = {
    "LinearDistribution": Known(PEERSIM + "peersim/vector/LinearDistribution.java", ("protocol", "max", "min")),
    "UniformDistribution": Known(PEERSIM + "peersim/vector/UniformDistribution.java", ("protocol", "max", "min")),
    "PeakDistribution": Known(
        PEERSIM + "peersim/vector/PeakDistribution.java", ("protocol", "value", "peaks", "background")
    ),
    "PeakDistributionInitializer": Known(
        EXAMPLE + "aggregation/PeakDistributionInitializer.java",
        ("protocol", "value"),
    ),
}
LOADERS = {
    "InstanceLoader": Known(
        GOLF
        + "controls/InstanceLoader.java, controls/initializers/InstanceLoader.java, initializers/InstanceLoader.java",
        ("trainingFile", "evaluationFile", "file", "samplesPerNode", "normalization", "cLabels", "readerClass"),
        {
            "protocol": "all layers learn from the same records",
            "learningProtocols": "all layers learn from the same records",
            "extractionProtocol": "golfsim learns from the records as they are",
            "printPrecision": PRINTED,
            "isPrintAges": PRINTED,
        },
    )
}
STARTERS = {
    "EventInitializer": Known(EXTRAS + "ednewscast/EventInitializer.java", (), {
        "protocolID": "a layer acts from the first cycle", "maxFirstDelay": "all nodes act once in each cycle",
    }),
    "CDScheduler": Known(PEERSIM + "peersim/edsim/CDScheduler.java", (), {
        "protocol": "a layer acts from the first cycle", "randstart": "all nodes act once in each cycle",
        "nextcycle": "all nodes act once in each cycle",
    }),
    "StartMessageInitializer": Known(GOLF + "controls/StartMessageInitializer.java", (), {
        "protocols": "a layer acts from the first cycle", "protocol": "a layer acts from the first cycle",
        "delay": "all nodes act once in each cycle",
    }),
    "SetNumberOfClassesForModels": Known(GOLF + "controls/initializers/SetNumberOfClassesForModels.java", (), {
        "protocol": "the number of classes follows from the data",
    }),
    "ModelInitializer": Known(GOLF + "controls/initializers/ModelInitializer.java", (), {
        "protocol": "models are zero at the start",
    }),
    "ChurnInitializer": Known("p2pChurn.jar", (), {
        "protocol": "nodes are online or offline as in the long run from the first cycle",
        "size": "nodes are online or offline as in the long run from the first cycle",
    }),
}  # fmt: skip
CHURN = {
    "DynamicNetwork": Known(
        PEERSIM + "peersim/dynamics/DynamicNetwork.java", ("add", "substitute", "minsize", "maxsize", "init")
    ),
    "OscillatingNetwork": Known(
        PEERSIM + "peersim/dynamics/OscillatingNetwork.java", ("minsize", "maxsize", "period", "init")
    ),
    "ExponentialUptime": Known(EXTRAS + "dynamics/ExponentialUptime.java", ("p", "substitute", "minsize", "init")),
    "ChurnControl": Known(GOLF + "controls/ChurnControl.java", ("size", "mu", "sigma"), {
        "protocol": "all layers of a node are offline together",
    }),
    "TraceChurn": Known(GOLF + "controls/TraceChurn.java", ("traceFile",)),
}  # fmt: skip
_SUMMARY = {"protocol": ALWAYS_LOGGED}
_OF_GRAPHS = dict.fromkeys(GRAPHS, "the statistics of all overlays are measured")
OBSERVERS = {
    "AverageObserver": Known(EXAMPLE + "aggregation/AverageObserver.java", ("accuracy",), _SUMMARY),
    "SingleValueObserver": Known(PEERSIM + "peersim/vector/SingleValueObserver.java", ("accuracy",), _SUMMARY),
    "PredictionObserver": Known(
        GOLF + "controls/PredictionObserver.java, controls/observers/PredictionObserver.java",
        ("errorComputatorClass", "errorFunctionClass", "eval"),
        _SUMMARY | {"format": PRINTED, "suffix": PRINTED},
    ),
    "MessageCounterObserver": Known(
        GOLF + "controls/observers/messageCounter/MessageCounterObserver.java",
        (),
        {"protocol": ALWAYS_LOGGED, "format": PRINTED},
    ),
    "OnlineNodeObserver": Known(GOLF + "controls/OnlineNodeObserver.java"),
    "GraphStats": Known(PEERSIM + "peersim/reports/GraphStats.java", ("nc", "nl"), _OF_GRAPHS),
    "DegreeStats": Known(
        PEERSIM + "peersim/reports/DegreeStats.java",
        (),
        _OF_GRAPHS
        | {"n": "the degrees of all nodes are stored", "method": PRINTED, "linktype": "dead links are counted"},
    ),
    "ConnectivityObserver": Known(
        PEERSIM + "peersim/reports/ConnectivityObserver.java",
        (),
        _OF_GRAPHS | {"stats": PRINTED, "type": "weakly connected components are measured"},
    ),
}
OVERLAY_OBSERVERS = ("GraphStats", "DegreeStats", "ConnectivityObserver")
ORDERS = {"Shuffle": Known(PEERSIM + "peersim/cdsim/Shuffle.java")}

CONTROLS = CHURN | OBSERVERS | ORDERS
INITIALISERS = WIRING | VALUES | LOADERS | STARTERS
PROTOCOLS = OVERLAYS | TRANSPORTS | AVERAGES | LEARNING | EXTRACTORS

GLOBALS = {  # keys without a component that golfsim needs no setting for
    "simulation.logtime": PRINTED,  # peersim/edsim/EDSimulator.java
    "simulation.eventqueue": "golfsim has no queue of events",
    "simulation.stdout": PRINTED,  # peersim/Simulator.java
    "simulation.threadnum": "any number of threads gives the same numbers",  # of the files of GoLF
    "simulation.messagemindelay": "it is about parallel execution only",  # of the files of GoLF
    "simulation.instanceReaderClass": "the format follows from the file",  # of the files of GoLF
    "network.initialCapacity": NO_MEMORY,  # peersim/core/Network.java
    "overlay.maxsize": NO_MEMORY,  # of the example files of PeerSim before 1.0
    "overlay.maxSize": NO_MEMORY,
    "graphobserver.fast": NO_MEMORY,  # peersim/reports/GraphObserver.java
    "debug.config": PRINTED,  # peersim/config/Configuration.java
    "expressions.maxdepth": "names may refer to each other 100 times",
    "jvm.options": "it is about Java only",  # peersim/rangesim/RangeSimulator.java
}
