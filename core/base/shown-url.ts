/** A URL as errors and logs show it: without user name and password, and without a query, which may hold a signature. */
export function shownUrl(url: URL | string): string {
  const { protocol, host, pathname, search } = new URL(url)
  return `${protocol}//${host}${pathname}${search === '' ? '' : '?…'}`
}
