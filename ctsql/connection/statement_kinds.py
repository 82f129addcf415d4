"""Classes of statements: which of them write, and which may be in a transaction."""

from ctsql.catalog import times
from ctsql.planner.syntax import ast as st

_READING = (
    st.Select, st.CopyTo, st.ShowObjects, st.ShowCreate, st.ShowPending, st.Describe, st.Explain,
    st.SetSetting, st.ShowRetention, st.ShowSetting, st.ResetSetting, st.UseSchema,
    st.ShowSubscriptions, st.ShowConstraints, st.Test, st.Blame, st.Why,
)  # fmt: skip


def writes(statement: st.Statement) -> bool:
    """Whether a read-only connection refuses it."""
    if isinstance(statement, st.VerifyView):
        return statement.repair
    return not isinstance(statement, (*_READING, st.Transact, st.Subscribe))


def is_transactional(statement: st.Statement) -> bool:
    """Whether it may be between BEGIN and COMMIT."""
    if isinstance(statement, st.Transact):
        return statement.verb is not st.TransactionVerb.BEGIN
    if isinstance(statement, (st.Blame, st.Why)):
        return False  # they tell of commits, and a transaction's rows have none yet
    return isinstance(statement, (*_READING, st.Dml, st.CopyFrom))


def runs_once(statement: st.Statement) -> bool:
    """Whether it is no definition: its SQL is evaluated now and never again."""
    if isinstance(statement, st.Explain):
        return isinstance(statement.statement, st.Select)
    return isinstance(statement, (st.Select, st.Dml, st.CopyTo, st.CreateTable, st.Blame, st.Why))


def is_definition(statement: st.Statement) -> bool:
    """Whether its SQL is evaluated again later; a subscription's may be, too."""
    kinds = (
        st.CreateView, st.CreateMaterializedView, st.CreateContinualTask, st.CreateFlow,
        st.Subscribe,
    )  # fmt: skip
    return isinstance(statement, kinds)


def as_of(statement: st.Select, transaction_time: int | None) -> int | None:
    """The T that a query reads; None for the newest.

    Args:
        transaction_time: the T at which the open transaction began; None without one.
    """
    if statement.as_of is None:
        return transaction_time
    return times.parse_time(statement.as_of, span=statement.as_of_span)
