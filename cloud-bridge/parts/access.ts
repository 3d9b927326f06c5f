import { isLoopback } from '../../core/kit/base/loopback.ts'
import { type Certificate, openCertificate } from '../http/certificate.ts'
import { requiresAuth } from '../identity/exposure.ts'
import { Grants } from '../identity/grants.ts'
import { openTlsPins, type TlsPins } from '../identity/tls-pins.ts'
import type { Base } from './base.ts'
import type { Stores } from './stores.ts'

export interface Access {
  readonly grants: Grants
  /** Undefined: no TLS. */
  readonly certificate: Certificate | undefined
  readonly tlsPins: TlsPins | undefined
}

/** Which devices may connect, and the certificate that all listeners show. @throws BrimError CONFIG_INVALID */
export function openAccess({ config, clock, closers, logger }: Base, { identityStore }: Stores): Access {
  const { id, host, tls } = config
  const authRequired = requiresAuth({ ...config, enrolled: config.database !== undefined || identityStore.devices().length > 0 })
  const certificate = tls && openCertificate(tls, clock, logger.child({ component: 'tls' }))
  if (certificate) closers.push(certificate.close)
  if (!isLoopback(host) && !certificate)
    logger.warn({ host }, 'no TLS: tokens and hidden states travel in plain text and can be read on the way')
  const grants = new Grants({ store: identityStore, bridge: id, authRequired, clock })
  const tlsPins = certificate && openTlsPins(certificate, identityStore, logger.child({ component: 'tls' }))
  return { grants, certificate, tlsPins }
}
