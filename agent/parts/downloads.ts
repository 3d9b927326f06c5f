import { nextSeed } from '../../core/kit/base/next-seed.ts'
import { seededRandom } from '../../core/kit/base/random.ts'
import type { GetOptionsOf } from '../bundles/get.ts'
import { Patience } from '../bundles/patience.ts'
import type { BridgeCredentials } from '../identity/identities.ts'
import type { BridgeLinks } from '../link/bridge-links.ts'
import type { Base } from './base.ts'
import { bridgeHttp } from './bridge-http.ts'

/** Time after which a silent server is given up. */
const stallMs = 30_000
/** Without a byte for this long while a bridge is connected, a download fails. Without a link it waits as long as the job may run. */
const maxSilentMs = 600_000

/** How jobs download bundles and releases. */
export function openDownloads({ config, clock }: Base, identities: BridgeCredentials, links: BridgeLinks): GetOptionsOf {
  const random = seededRandom(nextSeed())
  return (linkUrl, signal) => {
    const link = links.all.find(({ url }) => url === linkUrl)
    const patience = new Patience({ isConnected: () => links.hasBridge, maxSilentMs, clock, random })
    return { own: link && bridgeHttp(link, identities), sources: config.bundleSources, stallMs, patience, signal }
  }
}
