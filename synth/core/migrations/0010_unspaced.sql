-- Chinese, Japanese and Korean are searched by each two characters that follow one another, since
-- spaces do not part words there. The same as `tool_registry.search`, which a test holds.

-- Characters of texts in which spaces do not part words: kana, Chinese characters, Hangul.
CREATE MACRO search_unspaced() AS
    '\x{3041}-\x{3096}\x{309d}-\x{309f}\x{30a1}-\x{30fa}\x{30fc}-\x{30ff}\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{ac00}-\x{d7a3}';

-- What a lower-case run of letters is searched by: its search form, or its pairs of characters.
CREATE MACRO search_parts(run) AS
    CASE WHEN regexp_matches(run, '^[' || search_unspaced() || ']')
    THEN list_transform(range(1, greatest(2, length(run))), lambda n: substring(run, n, 2))
    WHEN length(run) <= 40 AND run NOT IN (
        'a', 'an', 'and', 'are', 'as', 'at', 'be', 'by', 'can', 'do', 'does', 'for', 'from', 'had', 'has',
        'have', 'how', 'i', 'in', 'into', 'is', 'it', 'its', 'me', 'my', 'of', 'on', 'or', 'that', 'the',
        'this', 'to', 'was', 'we', 'what', 'when', 'where', 'which', 'who', 'will', 'with', 'you',
        'your')
    THEN [search_form(run)] ELSE [] END;

-- The different search words of a text: camelCase split, lower case, without words like `the`.
CREATE OR REPLACE MACRO search_terms(text) AS list_distinct(flatten(list_transform(
    regexp_extract_all(
        regexp_replace(
            regexp_replace(text, '(?i)\be-mail', 'email', 'g'),
            '([A-Z]+)([A-Z][a-z])', '\1 \2', 'g'),
        '[A-Z]?[a-z]+|[A-Z]+|\p{Nd}+|[' || search_unspaced() || ']+'
        || '|[^\x00-\x7F\p{P}\p{S}\p{Z}\p{M}\p{C}\p{Nd}' || search_unspaced() || ']+'),
    lambda found: search_parts(lower(found)))));

-- What was indexed by whole runs before. Runs of more than 40 characters were not indexed; they are
-- when their server changes.
CREATE TEMP TABLE split_words AS
SELECT word, doc, sum(times)::INTEGER AS times FROM (
    SELECT doc, times, unnest(CASE WHEN regexp_matches(word, '[' || search_unspaced() || ']')
        THEN flatten(list_transform(
            regexp_extract_all(word, '[' || search_unspaced() || ']+|[^' || search_unspaced() || ']+'),
            lambda run: search_parts(run)))
        ELSE [word] END) AS word
    FROM search_words
    WHERE doc IN (SELECT doc FROM search_words WHERE regexp_matches(word, '[' || search_unspaced() || ']'))
) GROUP BY word, doc;
UPDATE search_tools SET words = n.words
FROM (SELECT doc, sum(times)::INTEGER AS words FROM split_words GROUP BY doc) n WHERE n.doc = search_tools.doc;
DELETE FROM search_words WHERE doc IN (SELECT doc FROM split_words);
INSERT INTO search_words
SELECT word, doc, times, words FROM split_words JOIN search_tools USING (doc) ORDER BY word, doc;
DROP TABLE split_words;
