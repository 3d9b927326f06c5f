import { writeFileSync } from 'node:fs'
import { z } from 'zod'
import { createPrivate } from '../../../core/kit/base/private-file.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { newSigningKey, readSigner } from '../../../core/wire/signing/signature.ts'

export const command = defineCommand({
  examples: [['brim bundle keygen release.key', 'prints the public key, for brim agent run --trusted-key']],
  notes: 'Keep the file off the bridge and the devices: anyone who has it can replace the models and the software of the fleet.',
  options: { file: z.string().min(1).describe('new file for the private key, readable by this user only') },
  run({ file, json }, io) {
    createPrivate(file)
    writeFileSync(file, newSigningKey(), { flush: true })
    const { publicKey } = readSigner(file)
    io.out(json ? JSON.stringify({ file, publicKey }) : publicKey)
    if (!json) io.err(`devices accept what this key signs after: brim agent run --trusted-key ${publicKey}`)
  },
})
