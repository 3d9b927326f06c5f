import { get, type Operations } from './operation.ts'

/** The page for people, in their browser. Its files hold nothing of the fleet: the page asks for that with its user's key. */
export const pageOperations = {
  index: get('/', 'open', 'The page that shows the fleet and asks questions, for a browser', {
    contentType: 'text/html; charset=utf-8',
  }),
  file: get('/page/:file', 'open', 'A file of the page: `main.js`, `style.css` or `icon.svg`', { contentType: '*/*' }),
} satisfies Operations
