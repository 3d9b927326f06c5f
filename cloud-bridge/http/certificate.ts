import { readFileSync, statSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'

export interface CertificateFiles {
  /** PEM: the certificate, and those between it and a root. */
  readonly cert: string
  /** PEM, its private key. */
  readonly key: string
}

/** What a TLS listener is given: PEM. */
export interface CertificatePair {
  readonly cert: string
  readonly key: string
}

/** A certificate as its files have it now. */
export interface Certificate {
  readonly current: CertificatePair
  /** From now on, whenever the files have changed. */
  onChange(use: (pair: CertificatePair) => void): void
  close(): void
}

/** By reading, not by watching: what renews certificates moves links about. */
const lookEveryMs = 5_000

/**
 * Reads a certificate, and again whenever it is renewed. A pair that does not fit together (one file may be written before
 * the other) changes nothing.
 * @throws BrimError CONFIG_INVALID
 */
export function openCertificate(files: CertificateFiles, clock: Clock, logger: Logger): Certificate {
  const stopping = new AbortController()
  const listeners: ((pair: CertificatePair) => void)[] = []
  let current = readPair(files)
  let complained: string | undefined

  function look(): void {
    try {
      const pair = readPair(files)
      complained = undefined
      if (pair.cert === current.cert && pair.key === current.key) return
      current = pair
      for (const use of listeners) use(pair)
      logger.info(files, 'TLS certificate renewed')
    } catch (err) {
      if (String(err) !== complained) logger.error({ err }, 'TLS certificate cannot be used, the one before stays')
      complained = String(err)
    }
  }

  async function watch(): Promise<void> {
    for (;;) {
      await clock.sleep(lookEveryMs, stopping.signal).catch(() => {})
      if (stopping.signal.aborted) return
      look()
    }
  }
  void watch()
  return {
    get current() {
      return current
    },
    onChange: (use) => listeners.push(use),
    close: () => stopping.abort(),
  }
}

/** @throws BrimError CONFIG_INVALID */
function readPair({ cert, key }: CertificateFiles): CertificatePair {
  let pair: CertificatePair
  try {
    if ((statSync(key).mode & 0o007) !== 0)
      throw new BrimError('CONFIG_INVALID', `everybody may read the TLS key ${key}`, { hint: `chmod 600 ${key}` })
    pair = { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
    createSecureContext(pair)
  } catch (cause) {
    if (cause instanceof BrimError) throw cause
    throw new BrimError('CONFIG_INVALID', `the TLS certificate ${cert} with the key ${key} cannot be used`, {
      cause,
      hint: 'both are PEM files, and belong together?',
    })
  }
  return pair
}
