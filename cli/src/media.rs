//! Binary content of results: what can be said of it in a line.
//!
//! Owns the few header bytes that tell a picture's dimensions. Never interprets more of a picture than that.

/// Width and height of a PNG, GIF, JPEG or WebP picture.
pub(crate) fn dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    png(bytes).or_else(|| gif(bytes)).or_else(|| webp(bytes)).or_else(|| jpeg(bytes))
}

/// The usual end of a file name for a MIME type.
pub(crate) fn extension(mime: &str) -> Option<&'static str> {
    Some(match mime.split(';').next()?.trim() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" => "wav",
        "audio/mpeg" => "mp3",
        "audio/ogg" => "ogg",
        "application/pdf" => "pdf",
        "text/plain" => "txt",
        "application/json" => "json",
        _ => return None,
    })
}

fn png(bytes: &[u8]) -> Option<(u32, u32)> {
    let header = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    let size = header.get(8..16).filter(|_| header.get(4..8) == Some(b"IHDR"))?;
    Some((be(size.get(..4)?), be(size.get(4..)?)))
}

fn gif(bytes: &[u8]) -> Option<(u32, u32)> {
    let size = bytes.strip_prefix(b"GIF87a").or_else(|| bytes.strip_prefix(b"GIF89a"))?;
    Some((le(size.get(..2)?), le(size.get(2..4)?)))
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    let chunk =
        bytes.get(12..).filter(|_| bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"))?;
    match chunk.get(..4)? {
        b"VP8 " => Some((le(chunk.get(14..16)?) & 0x3fff, le(chunk.get(16..18)?) & 0x3fff)),
        b"VP8L" => {
            let packed = le(chunk.get(9..13)?);
            Some(((packed & 0x3fff) + 1, (packed >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some((le(chunk.get(12..15)?) + 1, le(chunk.get(15..18)?) + 1)),
        _ => None,
    }
}

fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut rest = bytes.strip_prefix(b"\xff\xd8")?;
    loop {
        // Any number of fill bytes may stand before a marker.
        let at = rest.iter().position(|&b| b != 0xff).filter(|&at| at > 0)?;
        let (marker, segment) = (*rest.get(at)?, rest.get(at + 1..)?);
        match marker {
            0x01 | 0xd0..=0xd8 => rest = segment,
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some((be(segment.get(5..7)?), be(segment.get(3..5)?)));
            }
            _ => rest = segment.get(be(segment.get(..2)?).max(2) as usize..)?,
        }
    }
}

fn be(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

fn le(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_of_the_usual_formats() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02";
        assert_eq!(dimensions(png), Some((640, 480)));
        assert_eq!(dimensions(b"GIF89a\x80\x02\xe0\x01\0"), Some((640, 480)));
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc4\0\x03x\xff\xc2\0\x0b\x08\x01\xe0\x02\x80\x03";
        assert_eq!(dimensions(jpeg), Some((640, 480)));
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x80\x02\xe0\x01";
        assert_eq!(dimensions(lossy), Some((640, 480)));
        let extended = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x7f\x02\0\xdf\x01\0";
        assert_eq!(dimensions(extended), Some((640, 480)));
        let lossless = {
            let packed: u32 = 639 | 479 << 14;
            [&b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f"[..], &packed.to_le_bytes()].concat()
        };
        assert_eq!(dimensions(&lossless), Some((640, 480)));
    }

    #[test]
    fn cut_or_foreign_bytes_have_no_dimensions() {
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc4\0\x03x\xff\xc2\0\x0b\x08\x01\xe0\x02\x80\x03";
        for cut in 0..20 {
            assert_eq!(dimensions(&jpeg[..cut]), None);
        }
        assert_eq!(dimensions(b"\xff\xd8\xff\xe0\0\0\xff\xe0\0\0"), None);
        assert_eq!(dimensions(b"%PDF-1.7"), None);
        assert_eq!(dimensions(b""), None);
    }
}
