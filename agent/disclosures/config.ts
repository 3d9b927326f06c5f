import { z } from 'zod'
import { isLoopback } from '../../core/kit/base/loopback.ts'
import { parseRule } from './prompt-rule.ts'

/** The ledger of what leaves the device. */
export const DisclosuresConfig = z.strictObject({
  days: z
    .number()
    .positive()
    .max(3_650)
    .default(90)
    .describe('max age of entries in the ledger of what has left the device (brim agent disclosures), in days'),
  mb: z.number().min(1).max(1_024).default(16).describe('max size of that ledger, in MB; the oldest entries are dropped'),
})
export type DisclosuresConfig = z.infer<typeof DisclosuresConfig>

/** What prompts may leave the device, whatever mode their client asks for. */
export const PrivacyConfig = z.strictObject({
  rules: z
    .array(
      z.string().check(({ value, issues }) => {
        try {
          parseRule(value)
        } catch (error) {
          issues.push({ code: 'custom', input: value, message: (error as Error).message })
        }
      }),
    )
    .max(64)
    .optional()
    .meta({
      flag: 'privacy-rule',
      description:
        'rule NAME=MODE:PATTERN, such as medical=private:(?i)biopsy: a prompt in which the pattern (RE2) is found is answered in MODE, private or local, or a stricter one; repeatable',
      fallback: 'none',
    }),
  classifier: z
    .url({ protocol: /^https?$/ })
    .refine((url) => isLoopback(new URL(url).hostname), 'must be on this device: a URL like http://127.0.0.1:9000/classify')
    .optional()
    .meta({
      description:
        'URL of a classifier on this device: gets {"text": …} of each prompt that a server may see, and answers {"allow": true}, or false, and the prompt is answered in the mode private; a failure counts as false',
      fallback: 'none',
    }),
  classifierTimeoutS: z.number().positive().max(60).default(1).meta({
    flag: 'privacy-classifier-timeout',
    description: 'seconds within which the classifier must answer, up to 60',
  }),
  attestation: z.string().min(1).optional().meta({
    flag: 'require-attestation',
    description:
      'YAML or JSON file with the measurements and the firmware of confidential virtual machines (AMD SEV-SNP): only a bridge that proves to be one of them gets hidden states (docs/privacy.md)',
    fallback: 'any bridge where this device is enrolled gets them',
  }),
})
export type PrivacyConfig = z.infer<typeof PrivacyConfig>
