import type { Credentials } from '../identity/credentials.ts'
import type { BridgeCredentials } from '../identity/identities.ts'
import type { BridgeLink } from '../link/bridge-link.ts'

/** HTTP of the bridge that a link leads to; undefined: its address is not known yet. */
export function bridgeHttp(
  { url, status }: Pick<BridgeLink, 'url' | 'status'>,
  identities: Pick<BridgeCredentials, 'at'>,
): { readonly origin: string; readonly credentials: Credentials | undefined } | undefined {
  const credentials = identities.at(url)
  if (credentials) return { origin: credentials.origin, credentials }
  const { dataUrl } = status
  // The data plane is a WebSocket on the bridge's HTTP port.
  return dataUrl === undefined ? undefined : { origin: new URL(dataUrl.replace(/^ws/, 'http')).origin, credentials }
}
