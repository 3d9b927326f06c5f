/** The base URL of OpenAI's API on a server: `/v1`, where the URL names no path. */
export function apiBaseUrl(url: string): string {
  const base = new URL(url)
  if (base.pathname === '/') base.pathname = '/v1'
  return base.href.replace(/\/$/, '')
}
