"""Creates, changes and removes objects.

A definition never changes. To change objects is to give them their next definitions from one T on:
a *cutover* (:mod:`.cutover`: prepare, commit, complete). At that T an object holds one of these:

    unchanged rows       a task with another body; a view whose new query gives the same rows
    rows of a query      a view with another query: the rows that differ are written
    rows built before    a replacement, REPLAY: the rows that differ from those of a task or view
                         that was built next to it are written

    statement                                    module that prepares it
    -------------------------------------------- ---------------------------------------------
    CREATE OR REPLACE [MATERIALIZED] VIEW, FLOW  create, create_flow
    ALTER MATERIALIZED VIEW SET, CONSTRAINT      alter_view (which writes the statement for create)
    CREATE OR REPLACE, ALTER CONTINUAL TASK      alter_task
    CREATE REPLACEMENT, APPLY REPLACEMENT        view_replacement, task_replacement
    REPLAY                                       task_replacement
    ctsql apply                                  runtime/pipelines/applying

Each prepares view_change for a view and its quarantine, and task_change for a task and its outputs.

CREATE (create, create_flow) and DROP, UNDROP, RENAME, COMMENT (alter, dropped) are no cutovers but
one commit of the catalog. They bind no T, because that reads the logs of all tables, and DROP must
work when one of these cannot be read.
"""
