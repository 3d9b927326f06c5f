/** A URL as errors, logs and listings show it: without user name and password, and without a query, which may hold a signature. */
export function shownUrl(url: URL | string): string {
  const { protocol, host, pathname, search } = new URL(url)
  return `${protocol}//${host}${pathname}${search === '' ? '' : '?…'}`
}

/** Scheme, user, the rest up to a query, the query, the fragment. Never beyond a string of JSON. */
const urls = /\b([a-z][a-z0-9+.-]{0,15}:\/\/)(?:[^\s/?#"\\<>]*@)?([^\s?#"\\<>]*)(?:(\?)(?!…)[^\s#"\\<>]*)?(?:#[^\s"\\<>]*)?/gi

/** The text, or JSON, with every URL in it as `shownUrl` shows it. */
export const shownUrls = (text: string): string =>
  text.includes('://')
    ? text.replace(
        urls,
        (_, scheme: string, rest: string, query?: string) => `${scheme}${rest}${query === undefined ? '' : '?…'}`,
      )
    : text

/** A value of JSON with every URL in its strings as `shownUrl` shows it. */
export const withShownUrls = <T>(value: T): T => JSON.parse(shownUrls(JSON.stringify(value))) as T
