import { z } from 'zod'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { ReleaseNumber, readSigner } from '../../../core/wire/signing/signature.ts'
import { addSignature } from '../../../core/wire/signing/signature-file.ts'
import { readPackage } from './package.ts'

export const command = defineCommand({
  examples: [
    ['brim bundle sign qwen --key release.key', 'writes qwen/manifest.sig.json'],
    ['brim bundle sign brim-0.3.0-linux-arm64.tar.gz --key release.key', 'writes brim-0.3.0-linux-arm64.tar.gz.sig.json'],
  ],
  notes:
    'The number is signed too: a device that has had a higher one of the same bundle name, or of the software, refuses this one. A second key adds its signature: devices that trust either of them accept both.',
  options: {
    path: z.string().min(1).describe('folder of the bundle, or archive of the release'),
    sequence: ReleaseNumber.optional().meta({
      description: 'number of this version; each later version needs a higher one',
      fallback: 'the time: seconds since 1970',
    }),
    key: z.string().min(1).describe('file with the private key, as "brim bundle keygen" makes it'),
  },
  async run({ path, key, sequence = Math.floor(Date.now() / 1_000), json }, io) {
    const signer = readSigner(key)
    const { kind, sha256, signaturePath } = await readPackage(path)
    await addSignature(signaturePath, signer.sign(kind, sha256, sequence))
    const signed = { kind, sha256, sequence, publicKey: signer.publicKey, file: signaturePath }
    io.out(json ? JSON.stringify(signed) : `${signaturePath}: number ${sequence}, signed by ${signer.publicKey}`)
  },
})
