import { version } from '../../core/kit/base/version.ts'
import type { MulticastAddress } from '../../core/kit/listen/multicast-dns.ts'
import { unusedBridge } from '../../core/policy/link/found-bridge.ts'
import type { BridgeCredentials } from '../identity/identities.ts'
import type { BridgeLinks } from '../link/bridge-links.ts'
import { findBridges } from '../link/find-bridges.ts'
import type { Base } from './base.ts'

/** By then a bridge on this machine has been found. */
const localMs = 2_000
const searchMs = 3_000

/**
 * A device that is not enrolled, and has no bridge configured, looks once for those in its network, and logs how it would enrol.
 * @param at where; absent: in every network of this machine
 */
export function searchBridges(
  { config, clock, closers, logger }: Pick<Base, 'config' | 'clock' | 'closers' | 'logger'>,
  identities: Pick<BridgeCredentials, 'bridges' | 'at'>,
  links: Pick<BridgeLinks, 'hasBridge'>,
  at: MulticastAddress = {},
): void {
  const { id, fleet, stateDir } = config
  if (config.bridges !== undefined || identities.bridges.some((url) => identities.at(url) !== undefined)) return
  const closing = new AbortController()
  const { signal } = closing
  async function search(): Promise<void> {
    await clock.sleep(localMs, signal)
    if (links.hasBridge) return
    for (const bridge of await findBridges(at, searchMs, clock, signal))
      logger.warn(
        { ...bridge, ...unusedBridge(bridge, { id, fleet, stateDir, version }) },
        'bridge found in this network, not used',
      )
  }
  const searching = search().catch((err: unknown) => {
    if (!signal.aborted) logger.warn({ err }, 'bridges in this network not found')
  })
  closers.push(() => {
    closing.abort()
    return searching
  })
}
