-- Fixpoint: each teacher's students, their students, and so on.
--
-- Needs no data. Everything it makes is in the schema `fixpoint`; each run drops it first.

DROP SCHEMA IF EXISTS fixpoint CASCADE;
CREATE SCHEMA fixpoint;
USE fixpoint;

CREATE TABLE taught (teacher TEXT, student TEXT);

-- The body runs again at the same T until nothing changes; all rounds are one commit. In it
-- `taught` has the rows that the commit inserted, and `line` all pairs found so far. Each join
-- begins with the new rows, so nothing is recomputed. EXCEPT leaves out pairs that are stored;
-- without it the rounds would not end.
CREATE CONTINUAL TASK line (ancestor TEXT, descendant TEXT)
ON INPUT taught WITH (ITERATIONS = FIXPOINT) AS (
    -- A teacher is above the student, and above everybody below the student.
    INSERT INTO line
    SELECT teacher, student FROM taught
    UNION
    SELECT t.teacher, below.descendant
    FROM taught AS t JOIN line AS below ON below.ancestor = t.student
    EXCEPT
    SELECT ancestor, descendant FROM line;
    -- Everybody above the teacher is above everybody below the teacher.
    INSERT INTO line
    SELECT above.ancestor, below.descendant
    FROM taught AS t
    JOIN line AS above ON above.descendant = t.teacher
    JOIN line AS below ON below.ancestor = t.teacher
    EXCEPT
    SELECT ancestor, descendant FROM line;
);

-- Two schools that have nothing to do with each other.
INSERT INTO taught VALUES
    ('Euler', 'Lagrange'), ('Lagrange', 'Fourier'), ('Lagrange', 'Poisson'),
    ('Lipschitz', 'Klein'), ('Klein', 'Lindemann'), ('Lindemann', 'Hilbert');

SELECT ancestor, count(*) AS descendants FROM line GROUP BY ancestor ORDER BY 2 DESC, 1;

-- Then Dirichlet's teachers and students are added, which joins the two schools.
INSERT INTO taught VALUES
    ('Fourier', 'Dirichlet'), ('Poisson', 'Dirichlet'), ('Dirichlet', 'Lipschitz');

SELECT ancestor, count(*) AS descendants FROM line GROUP BY ancestor ORDER BY 2 DESC, 1;
SELECT array_join(sort_array(collect_list(ancestor)), ', ') AS above_hilbert
FROM line
WHERE descendant = 'Hilbert';
