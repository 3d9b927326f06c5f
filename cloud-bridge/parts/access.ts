import { isLoopback } from '../../core/base/loopback.ts'
import { openCertificate } from '../http/certificate.ts'
import { requiresAuth } from '../identity/exposure.ts'
import { Grants } from '../identity/grants.ts'
import { openTlsPins } from '../identity/tls-pins.ts'
import type { Base } from './base.ts'
import type { Stores } from './stores.ts'

/** Which devices may connect, and the certificate that all listeners show. @throws BrimError CONFIG_INVALID */
export function openAccess({ config, clock, closers, logger, log }: Base, { identityStore }: Stores) {
  const { id, host, tls } = config
  const authRequired = requiresAuth({ ...config, enrolled: identityStore.devices().length > 0 })
  const certificate = tls && openCertificate(tls, clock, log('tls'))
  if (certificate) closers.push(certificate.close)
  if (!isLoopback(host) && !certificate)
    logger.warn({ host }, 'no TLS: tokens and hidden states travel in plain text and can be read on the way')
  const grants = new Grants({ store: identityStore, bridge: id, authRequired, clock })
  const tlsPins = certificate && openTlsPins(certificate, identityStore, log('tls'))
  return { grants, certificate, tlsPins }
}
export type Access = ReturnType<typeof openAccess>
