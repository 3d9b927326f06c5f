import { z } from 'zod'

const unitBytes = { K: 1e3, M: 1e6, G: 1e9 } as const

/** Bytes of a text such as 4G, 1.5G or 512M, in powers of ten as `megabytes` prints. */
export const memorySize = z
  .string()
  .regex(/^\d+(\.\d+)?[KMG]B?$/i, 'must be a size such as 4G or 512M')
  .transform(
    (text) => Number.parseFloat(text) * unitBytes[text.replace(/B$/i, '').slice(-1).toUpperCase() as keyof typeof unitBytes],
  )
