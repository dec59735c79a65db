-- Users may hold tools of their own; a call has whoever made it beside it.

ALTER TABLE steps ADD COLUMN actor VARCHAR DEFAULT 'agent';  -- agent, user
