"""How objects come, get another definition, and go.

A definition never changes. To change an object is to give it the next definition from one T on,
for any number of objects together: a *cutover* (:mod:`.cutover`: prepare, commit, complete). What
the object holds at that T is one of three:

    what it held       a task with another body; a view whose query gives the same
    what a query gives a view with another query: the rows that differ are written
    what was built     a replacement, and REPLAY: another task or view was built beside it, and the
                       rows that differ are written

    statement                                    who prepares it
    -------------------------------------------- ---------------------------------------------
    CREATE (no cutover: one commit of catalog)   create, create_flow
    CREATE OR REPLACE [MATERIALIZED] VIEW, FLOW  create, create_flow
    ALTER MATERIALIZED VIEW SET, CONSTRAINT      alter_view (which writes the statement for create)
    CREATE OR REPLACE, ALTER CONTINUAL TASK      alter_task
    CREATE REPLACEMENT, APPLY REPLACEMENT        view_replacement, task_replacement
    REPLAY                                       task_replacement
    ctsql apply                                  runtime/pipelines/applying
    DROP, UNDROP, RENAME, COMMENT                alter, dropped

All of them prepare the same two values: view_change for a view and its quarantine, task_change for
a task and its outputs.

The last row is no cutover: it is one commit of the catalog, and no T is bound. To bind a T the logs
of all tables are read, and DROP is what helps when one of them cannot be read.

In addition, first_rows has the definitions by which a task copies rows, and output_tables makes
tables.
"""
