-- Dead letters: rows that can be used, and those that cannot with what is wrong with them.
--
-- Begins from the table `flights` (python -m examples.load). Everything it makes is in the
-- schema `letters`; each run drops it first.

DROP SCHEMA IF EXISTS letters CASCADE;
CREATE SCHEMA letters;
USE letters;

CREATE TABLE feed (
    month INT, day INT, carrier TEXT, flight INT, origin TEXT, tailnum TEXT, dep_delay INT
);

-- One task, two outputs: every row of a commit goes into one of them. A T is in both or in
-- neither, so who counts the rows of both never finds one missing, or one twice.
CREATE CONTINUAL TASK route OUTPUTS (
    clean (month INT, day INT, carrier TEXT, flight INT, origin TEXT, tailnum TEXT, dep_delay INT),
    dead_letters (month INT, day INT, carrier TEXT, flight INT, origin TEXT, reason TEXT)
) ON INPUT feed AS (
    -- A flight that is sent again is judged again.
    DELETE FROM dead_letters AS d WHERE EXISTS (
        SELECT 1 FROM feed AS f
        WHERE f.month = d.month AND f.day = d.day AND f.carrier = d.carrier
            AND f.flight = d.flight AND f.origin = d.origin
    );
    INSERT INTO clean
    SELECT * FROM feed WHERE tailnum IS NOT NULL AND dep_delay IS NOT NULL;
    INSERT INTO dead_letters
    SELECT
        month, day, carrier, flight, origin,
        CASE WHEN tailnum IS NULL THEN 'no aircraft' ELSE 'never left' END
    FROM feed
    WHERE tailnum IS NULL OR dep_delay IS NULL;
);

-- A view of both: each flight counts once, at every T.
CREATE MATERIALIZED VIEW routed AS
SELECT month, state, count(*) AS flights
FROM (
    SELECT month, 'clean' AS state FROM clean
    UNION ALL
    SELECT month, reason FROM dead_letters
)
GROUP BY month, state;

INSERT INTO feed
SELECT month, day, carrier, flight, origin, tailnum, dep_delay FROM default.flights WHERE month = 1;

INSERT INTO feed
SELECT month, day, carrier, flight, origin, tailnum, dep_delay FROM default.flights WHERE month = 2;

SELECT * FROM routed ORDER BY month, state;

-- Somebody looks up what was missing on the first of January, and sends those flights again: at
-- one T the letters go, and the flights are there.
INSERT INTO feed
SELECT month, day, carrier, flight, origin, 'looked up', 0
FROM dead_letters
WHERE month = 1 AND day = 1;

SELECT * FROM routed ORDER BY month, state;
SHOW TASK OUTPUTS;
