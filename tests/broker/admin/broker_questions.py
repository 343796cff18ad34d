"""Every question about a broker by its name; one that begins with another's answer gets an empty one."""

from pyspark.sql import DataFrame

from oms_journal.analysis import questions

NAMES = (
    *("units_of_work", "uow_services", "uow_statuses", "uow_stays", "uow_attempts", "uow_failures"),
    *("conversations", "conversation_services", "publications", "subscribers", "topics"),
    *("broker_starts", "broker_records"),
)


def ask(name: str, keyed: DataFrame, operations: DataFrame) -> DataFrame:
    """Return the answer; `keyed` are the operations on keys with their values."""

    def of(other: str) -> DataFrame:
        return ask(other, keyed, operations).limit(0)  # which Spark knows to be empty without asking

    match name:
        case "units_of_work" | "publications":
            return questions.QUESTIONS[name](keyed, operations)
        case "uow_services" | "uow_attempts" | "uow_failures" | "conversations":
            return questions.QUESTIONS[name](of("units_of_work"))
        case "uow_statuses":
            return questions.uow_statuses(of("units_of_work"), of("uow_stays"))
        case "conversation_services":
            return questions.conversation_services(of("conversations"))
        case "subscribers":
            return questions.subscribers(keyed, of("publications"))
        case "topics":
            return questions.topics(of("publications"), of("subscribers"))
        case _:
            return questions.QUESTIONS[name](keyed)
