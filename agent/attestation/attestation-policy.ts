import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { z } from 'zod'
import { BrimError, orThrow } from '../../core/kit/base/errors.ts'
import { reasonOf } from '../../core/wire/protocol/read-message.ts'

/** Security version of a part of the firmware. */
const Svn = z.int().min(0).max(255)
/** The trusted computing base of an AMD processor: the firmware on which the virtual machine's protection depends. */
const Tcb = z.strictObject({ bootloader: Svn, tee: Svn, snp: Svn, microcode: Svn })
export type Tcb = z.infer<typeof Tcb> & { readonly fmc?: number }

/** The bridges that the device's owner trusts. */
const AttestationPolicy = z.strictObject({
  measurements: z
    .array(z.string().regex(/^[0-9a-f]{96}$/, 'must be 96 hex digits'))
    .min(1)
    .describe('SHA-384 of each virtual machine that may be a bridge.'),
  /** Of each product that is accepted, its oldest firmware. */
  tcb: z
    .strictObject({ milan: Tcb, genoa: Tcb, turin: Tcb.extend({ fmc: Svn }) })
    .partial()
    .refine((tcb) => Object.keys(tcb).length > 0, 'names no product: milan, genoa or turin'),
})
export type AttestationPolicy = z.infer<typeof AttestationPolicy>
export type Product = keyof AttestationPolicy['tcb']

/** @param path YAML or JSON. @throws BrimError CONFIG_INVALID naming the file and the field */
export function readAttestationPolicy(path: string): AttestationPolicy {
  const what = `the file ${path} of --require-attestation`
  const content: unknown = orThrow(() => parse(readFileSync(path, 'utf8')), 'CONFIG_INVALID', `${what} cannot be read`)
  const read = AttestationPolicy.safeParse(content)
  if (read.success) return read.data
  throw new BrimError('CONFIG_INVALID', `${what} is wrong: ${reasonOf(read.error)}`, {
    hint: 'docs/privacy.md has an example',
  })
}
