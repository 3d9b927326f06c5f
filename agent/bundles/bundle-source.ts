import { lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { BrimError } from '../../core/kit/base/errors.ts'
import { shownUrl } from '../../core/kit/base/shown-url.ts'
import { isPublicAddress } from './public-address.ts'

/**
 * How a device may connect to a server that a job names, besides its own bridge. An operator of the fleet must not reach
 * through it what only its own network can: routers, cloud metadata, services on the device.
 * @param sources origins that the configuration allows; undefined: every one with a public address
 * @returns the name resolution to use; undefined: the system's
 * @throws BrimError BUNDLE_INVALID
 */
export function allowSource(url: URL, sources: readonly string[] | undefined): LookupFunction | undefined {
  if (sources?.includes(url.origin)) return undefined
  if (sources !== undefined) throw refused(url, 'its configuration names other sources')
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) !== 0 && !isPublicAddress(host)) throw refused(url, `${host} is a private address`)
  return publicOnly(url)
}

/** The check is part of the connection: a name may resolve to another address the next time. */
const publicOnly =
  (url: URL): LookupFunction =>
  (host, options, done) =>
    lookup(host, { ...options, all: true }, (error, addresses) => {
      const denied = addresses?.find(({ address }) => !isPublicAddress(address))
      if (error) done(error, [])
      else if (denied) done(refused(url, `${host} has the private address ${denied.address}`), [])
      else if (options.all === true) done(null, addresses)
      else done(null, addresses[0]?.address ?? '', addresses[0]?.family)
    })

const refused = (url: URL, why: string) =>
  new BrimError('BUNDLE_INVALID', `this device does not download from ${shownUrl(url)}: ${why}`, {
    hint: `start its agent with --bundle-source ${url.origin}`,
  })
