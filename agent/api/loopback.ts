import { isLoopback } from '../../core/base/loopback.ts'

/**
 * Rejects requests that a web page of another machine has caused. A page can forge neither header: DNS rebinding leaves
 * the attacker's name in Host, and a cross-site request carries its Origin.
 * @returns the reason, or undefined for a request from this machine
 */
export function rejectForeign(host: string | undefined, origin: string | undefined): string | undefined {
  if (!isLoopback(hostnameOf(`http://${host ?? ''}`))) return `Host "${host ?? ''}" is not this machine`
  if (origin !== undefined && !isLoopback(hostnameOf(origin))) return `Origin "${origin}" is not this machine`
  return undefined
}

const hostnameOf = (url: string): string => (URL.canParse(url) ? new URL(url).hostname : '')
