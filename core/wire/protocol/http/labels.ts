import { z } from 'zod'

/** Of one device. */
export const maxLabels = 32
export const labelKey = z
  .string()
  .regex(/^[a-z0-9](?:[a-z0-9._/-]{0,61}[a-z0-9])?$/, 'a label key has lower-case letters, digits and . _ / -')
const labelValue = z
  .string()
  .regex(/^[A-Za-z0-9](?:[A-Za-z0-9._/:-]{0,61}[A-Za-z0-9])?$/, 'a label value has letters, digits and . _ / : -')

/** As an operator gives them. */
export const LabelsToSet = z
  .record(labelKey, labelValue)
  .refine((labels) => Object.keys(labels).length <= maxLabels, `a device has at most ${maxLabels} labels`)
/** As stored. */
export const Labels = z.record(z.string(), z.string())
