-- Everything that a client of these tests can have written, one text. Sequences
-- are not part of it: they go on in transactions that come to nothing.
SELECT string_agg(line, E'\n' ORDER BY line) FROM (
	SELECT 'relation ' || relname || ' ' || relkind::text FROM pg_class WHERE relnamespace = 'public'::regnamespace
	UNION ALL SELECT 'rows of ' || relname || ' ' || coalesce((xpath('//md5/text()', query_to_xml(
		format('SELECT md5(string_agg(t::text, %L ORDER BY t::text)) FROM public.%I AS t', ',', relname), true, true, '')))[1]::text, '')
		FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
	UNION ALL SELECT 'large object ' || md5(string_agg(data, '' ORDER BY pageno)) FROM pg_largeobject GROUP BY loid
	UNION ALL SELECT 'prepared ' || count(*) FROM pg_prepared_xacts WHERE database = current_database()
) AS lines (line)
