"""Creates, changes and removes objects.

A definition never changes. A change gives objects new definitions from one T on, by a *cutover*
(:mod:`.cutover`). Each of these modules makes a :class:`.cutover.Redefinition`:

    CREATE OR REPLACE [MATERIALIZED] VIEW, FLOW  create, create_flow
    ALTER MATERIALIZED VIEW SET, CONSTRAINT      alter_view, which writes the statement for create
    CREATE OR REPLACE, ALTER CONTINUAL TASK      alter_task
    APPLY REPLACEMENT, REPLAY                    view_replacement, task_replacement
    ctsql apply                                  runtime/pipelines/applying

CREATE, DROP, UNDROP, RENAME and COMMENT (create, alter, dropped) are one commit of the catalog.
They bind no T, because binding reads the logs of all tables, and DROP must work if one is damaged.
"""
