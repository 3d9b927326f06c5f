import { existsSync, readFileSync } from 'node:fs'
import { z } from 'zod'
import { BrimError, orThrow } from '../../core/kit/base/errors.ts'
import { writePrivate } from '../../core/kit/base/private-file.ts'
import { ReleaseNumber } from '../../core/wire/signing/signature.ts'

/** A signed bundle or release that the device is to have. */
export interface Numbered {
  /** Within which numbers count: a bundle's name, or the software. */
  readonly series: string
  /** Its version, as one word. */
  readonly name: string
  /** Of its signature; undefined: signed without a number. */
  readonly sequence: number | undefined
  /** An admin has allowed the device to go back to it. */
  readonly allowDowngrade: boolean
}

const FloorsFile = z.object({
  v: z.literal(1),
  floors: z.record(z.string(), ReleaseNumber),
  begun: z.object({ series: z.string(), name: z.string(), sequence: ReleaseNumber, allowDowngrade: z.boolean() }).optional(),
})
type FloorsFile = z.infer<typeof FloorsFile>

/** The number that the device has of each series, on disk. It goes below only where an admin allows it. */
export class SequenceFloors {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  /** @throws BrimError DOWNGRADE_REFUSED */
  require({ series, sequence, allowDowngrade }: Numbered): void {
    if (allowDowngrade) return
    const floor = this.#read().floors[series]
    if (floor === undefined || (sequence !== undefined && sequence >= floor)) return
    const number = sequence === undefined ? 'has no number' : `has the number ${sequence}`
    throw new BrimError('DOWNGRADE_REFUSED', `${series}: the version ${number}, but this device has had ${floor}`, {
      hint: 'sign it again with "brim bundle sign" if it is the newest; or an admin gives --allow-downgrade',
    })
  }

  /** The device tries it from now on. */
  begin({ series, name, sequence, allowDowngrade }: Numbered): void {
    if (sequence === undefined) return
    const { floors } = allowDowngrade ? this.#readable() : this.#read()
    this.#write({ v: 1, floors, begun: { series, name, sequence, allowDowngrade } })
  }

  /** The device keeps what it has begun under this name. */
  keep(name: string): void {
    const { floors, begun } = this.#readable()
    if (begun?.name !== name) return
    const { series, sequence, allowDowngrade } = begun
    const kept = allowDowngrade ? sequence : Math.max(sequence, floors[series] ?? 0)
    this.#write({ v: 1, floors: { ...floors, [series]: kept } })
  }

  #write(file: FloorsFile): void {
    writePrivate(this.#path, `${JSON.stringify(file)}\n`)
  }

  /** What a damaged file held does not count. */
  #readable(): FloorsFile {
    try {
      return this.#read()
    } catch {
      return nothing
    }
  }

  /** @throws BrimError DOWNGRADE_REFUSED for a damaged file */
  #read(): FloorsFile {
    if (!existsSync(this.#path)) return nothing
    return orThrow(
      () => FloorsFile.parse(JSON.parse(readFileSync(this.#path, 'utf8'))),
      'DOWNGRADE_REFUSED',
      `the numbers of what this device has had cannot be read from ${this.#path}`,
      'an admin gives --allow-downgrade once, which writes the file again',
    )
  }
}

const nothing: FloorsFile = { v: 1, floors: {} }
