/** Whether a device that enrolled at `enrolledUrl` must not use `url`, because what it sends there could be read on the way. */
export const losesEncryption = (enrolledUrl: string, url: string): boolean =>
  new URL(enrolledUrl).protocol === 'https:' && !/^(?:https|wss):/.test(url)

/**
 * Whether a device may send its access token to `url`: to the bridge where it enrolled, or to the data plane that its
 * configuration names. An address that was announced on the broker proves nothing.
 */
export function mayReceiveToken(url: string, enrolledUrl: string, configuredUrl: string | undefined): boolean {
  const known = [enrolledUrl, ...(configuredUrl === undefined ? [] : [configuredUrl])].map(originOf)
  return known.includes(originOf(url)) && !losesEncryption(enrolledUrl, url)
}

/** HTTP and WebSocket of one bridge share a port. */
const originOf = (url: string): string => new URL(url.replace(/^ws/, 'http')).origin
