//! A TCP proxy on loopback whose links can be cut in the middle of a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A proxy in front of one replica.
pub(crate) struct Proxy {
    /// `host:port` where it listens.
    pub(crate) address: String,
    cut_next_reply: Arc<AtomicBool>,
    cuts: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy that passes everything on.
    pub(crate) async fn to(replica: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("is bound").to_string();
        let (cut_next_reply, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (cut, count, replica) = (cut_next_reply.clone(), cuts.clone(), replica.to_owned());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(server) = TcpStream::connect(&replica).await {
                    tokio::spawn(link(client, server, cut.clone(), count.clone()));
                }
            }
        });
        Proxy { address, cut_next_reply, cuts, task }
    }

    /// Cuts the link at which a call's reply arrives next, instead of passing the reply on.
    pub(crate) fn cut_next_reply(&self) {
        self.cut_next_reply.store(true, Ordering::SeqCst);
    }

    /// How many links were cut.
    pub(crate) fn cuts(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The type of a frame of HTTP/2 that carries a reply's or a request's headers.
const HEADERS: u8 = 1;

/// Passes bytes on, both ways, until one side ends or the link is cut.
async fn link(client: TcpStream, server: TcpStream, cut: Arc<AtomicBool>, cuts: Arc<AtomicUsize>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = async { drop(tokio::io::copy(&mut from_client, &mut to_server).await) };
    // Frame by frame: what is not a reply (settings, windows, pings) passes though a cut is asked for.
    let replies = async {
        let mut head = [0; 9];
        while from_server.read_exact(&mut head).await.is_ok() {
            if head[3] == HEADERS && cut.swap(false, Ordering::SeqCst) {
                cuts.fetch_add(1, Ordering::SeqCst);
                return;
            }
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let mut frame = vec![0; length];
            if from_server.read_exact(&mut frame).await.is_err()
                || to_client.write_all(&[&head[..], &frame].concat()).await.is_err()
            {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = replies => {}
    }
}
