import { X509Certificate } from 'node:crypto'
import type { Logger } from '../../core/kit/base/logger.ts'
import { pinOf } from '../../core/kit/base/tls-pin.ts'
import type { IdentityStore } from './store.ts'

/** The TLS keys of a bridge, as it tells them to its devices. */
export interface TlsPins {
  readonly present: string
  /** The present one first. */
  all(): string[]
}

interface Shown {
  readonly current: { readonly cert: string }
  onChange(listener: (pair: { readonly cert: string }) => void): void
}

/** @param certificate that all listeners show; a key that was announced is no longer a next one once it is shown */
export function openTlsPins(certificate: Shown, store: Pick<IdentityStore, 'nextPins' | 'withdrawPin'>, logger: Logger): TlsPins {
  const read = ({ cert }: { readonly cert: string }) => pinOf(new X509Certificate(cert).publicKey)
  let present = read(certificate.current)
  const settle = () => {
    if (store.withdrawPin('bridge', present)) logger.info({ pin: present }, 'TLS key replaced by the announced one')
  }
  settle()
  certificate.onChange((pair) => {
    const before = present
    present = read(pair)
    if (present === before) return
    if (!store.nextPins().some(({ pin }) => pin === present))
      logger.warn({ pin: present, before }, 'TLS key replaced by one that was not announced: devices with a pin must enrol again')
    settle()
  })
  return {
    get present() {
      return present
    },
    all: () => [present, ...store.nextPins().map(({ pin }) => pin)],
  }
}
