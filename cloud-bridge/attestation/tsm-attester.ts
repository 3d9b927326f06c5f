import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import fs from 'node:fs/promises'
import { join } from 'node:path'
import type { Evidence } from '../../core/wire/protocol/attestation.ts'
import type { Attester } from './attester.ts'
import { certificatesInTable } from './certificate-table.ts'

/** What is done with the kernel's files. */
export interface TsmFiles {
  mkdir(path: string): Promise<unknown>
  readFile(path: string): Promise<Buffer>
  rmdir(path: string): Promise<void>
  writeFile(path: string, content: Uint8Array): Promise<void>
}

/** Of Linux 6.7 and later: Documentation/ABI/testing/configfs-tsm. */
export const tsmFolder = '/sys/kernel/config/tsm/report'

/** By the driver that makes reports. */
const kinds: Readonly<Record<string, string>> = { sev_guest: 'sev-snp', tdx_guest: 'tdx' }

/** Asks the kernel of a confidential virtual machine for reports, one after the other: the processor limits their rate. */
export class TsmAttester implements Attester {
  readonly #certificates: readonly Buffer[]
  readonly #folder: string
  readonly #files: TsmFiles
  #last: Promise<unknown> = Promise.resolve()

  /** @param certificates DER, besides those that the host gives */
  constructor(certificates: readonly Buffer[], folder: string = tsmFolder, files: TsmFiles = fs) {
    this.#certificates = certificates
    this.#folder = folder
    this.#files = files
  }

  /** Whether this kernel can make reports. */
  static isPresent(folder: string = tsmFolder): boolean {
    return existsSync(folder)
  }

  evidenceOf(data: Uint8Array, signal: AbortSignal): Promise<Evidence> {
    const evidence = this.#last.then(() => {
      signal.throwIfAborted()
      return this.#request(data)
    })
    this.#last = evidence.catch(() => {})
    return evidence
  }

  /** The kernel makes the files of a request with its folder, and the report when it is read. */
  async #request(data: Uint8Array): Promise<Evidence> {
    const request = join(this.#folder, `brim-${randomUUID()}`)
    const read = (name: string) => this.#files.readFile(join(request, name))
    const generation = async () => Number((await read('generation')).toString())
    await this.#files.mkdir(request)
    try {
      const before = await generation()
      await this.#files.writeFile(join(request, 'inblob'), data)
      const report = await read('outblob')
      // Not every driver and host has one.
      const table = await read('auxblob').catch(() => Buffer.alloc(0))
      const provider = (await read('provider')).toString().trim()
      if ((await generation()) !== before + 1) throw new Error('another program has changed the request for a report')
      const certificates = [...certificatesInTable(table), ...this.#certificates]
      return {
        kind: kinds[provider] ?? provider,
        report: report.toString('base64'),
        certificates: certificates.map((der) => der.toString('base64')),
      }
    } finally {
      await this.#files.rmdir(request)
    }
  }
}
