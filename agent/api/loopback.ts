import { isLoopback } from '../../core/base/loopback.ts'

/**
 * Whether a request comes from this machine and means this machine. A page from elsewhere cannot lie about either: DNS
 * rebinding keeps the attacker's name in Host, a cross-site request carries its Origin.
 * @returns what is wrong, or undefined
 */
export function refuseStranger(host: string | undefined, origin: string | undefined): string | undefined {
  if (!isLoopback(hostnameOf(`http://${host ?? ''}`))) return `Host "${host ?? ''}" is not this machine`
  if (origin !== undefined && !isLoopback(hostnameOf(origin))) return `Origin "${origin}" is not this machine`
  return undefined
}

const hostnameOf = (url: string): string => (URL.canParse(url) ? new URL(url).hostname : '')
