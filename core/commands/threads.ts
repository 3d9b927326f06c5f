import { availableParallelism } from 'node:os'
import { z } from 'zod'

/** The runtime would start any number of threads until memory is exhausted. */
export const threadsOption = z
  .int()
  .min(1)
  .max(256)
  .default(Math.min(4, availableParallelism()))
  .meta({ description: 'threads per operator', fallback: 'the number of cores, at most 4' })
