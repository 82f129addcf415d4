"""Creates, changes and removes objects.

A definition never changes. A change gives objects new definitions from one T on, by a *cutover*
(:mod:`.cutover`). Each of these modules makes a :class:`.cutover.Redefinition`:

    CREATE OR REPLACE, CREATE FLOW           runtime/pipelines/create_or_replace
    ctsql apply                              runtime/pipelines/applying
    ALTER MATERIALIZED VIEW, CONTINUAL TASK  alter_view, alter_task
    APPLY REPLACEMENT, REPLAY                view_replacement, task_replacement

CREATE, DROP, UNDROP, RENAME and COMMENT (create, alter, dropped) are one commit of the catalog.
They bind no T, because binding reads the logs of all tables, and DROP must work if one is damaged.
"""
